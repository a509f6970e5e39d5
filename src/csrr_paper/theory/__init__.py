"""The paper's bounds, versions of them that can be proved, and a simulation that measures the bounded quantities."""

from csrr_paper.theory.bounds import (
    class_loss_bound,
    excess_cost_bound,
    excess_cost_from_loss,
    excess_loss_bound,
    gamma_range,
    most_positives,
    noise_bound,
    sum_lower_bound,
    transfer_factor,
)
from csrr_paper.theory.simulation import Simulation, simulate

__all__ = [
    "Simulation",
    "class_loss_bound",
    "excess_cost_bound",
    "excess_cost_from_loss",
    "excess_loss_bound",
    "gamma_range",
    "most_positives",
    "noise_bound",
    "simulate",
    "sum_lower_bound",
    "transfer_factor",
]
