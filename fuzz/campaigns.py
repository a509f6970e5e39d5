"""The campaigns by name. A new one is a file of its own and a line here."""

from __future__ import annotations

from fuzz.campaign import Campaign
from fuzz.fits import Fits
from fuzz.interrupts import Interrupts
from fuzz.item_files import ItemFiles
from fuzz.kills import Kills
from fuzz.logs import Logs
from fuzz.model_files import ModelFiles
from fuzz.storage import Storage
from fuzz.tables import Tables

CAMPAIGNS: dict[str, Campaign] = {
    campaign.name: campaign
    for campaign in (Fits(), Logs(), ItemFiles(), ModelFiles(), Tables(), Interrupts(), Kills(), Storage())
}
