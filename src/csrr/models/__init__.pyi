"""The models, in the order in which they are listed, each declared here and nowhere else.

`csrr.registry` reads the lines of this file, and type checkers do.
"""
# ruff: noqa: I001

from csrr.models.csrr import CSRR as CSRR
from csrr.models.csrre import CSRRe as CSRRe
from csrr.models.popularity import PopRank as PopRank
from csrr.models.wrmf import WRMF as WRMF
from csrr.models.bprmf import BPRMF as BPRMF
from csrr.models.mcshift import MCShift as MCShift
from csrr.models.mcshift import BiasMC as BiasMC
from csrr.models.ease import EASE as EASE
from csrr.models.itemknn import ItemKNN as ItemKNN
from csrr.models.markov import MarkovChain as MarkovChain
from csrr.models.vsknn import VSKNN as VSKNN
