"""The campaigns by name. A new one is a file of its own and a line here."""

from __future__ import annotations

from fuzz.campaign import Campaign
from fuzz.fits import Fits
from fuzz.model_files import ModelFiles

CAMPAIGNS: dict[str, Campaign] = {
    campaign.name: campaign
    for campaign in (
        Fits(),
        ModelFiles(),
    )
}
