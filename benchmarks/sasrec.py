"""SASRec (Kang and McAuley 2018) with a softmax over all items, tuned on each user's second-to-last event.

    python -m benchmarks.sasrec --data DIR --out DIR [--seconds 150] [--only ml-1m ...] [--jobs 8]

It needs PyTorch and numpy alone, and a GPU if there is one. DIR has a file NAME.npz for each data set (`python -m
benchmarks order sequences DIR`): `items`, (n_events,), the item rows of all users, oldest first, `starts`,
(n_users + 1,), and `n_items`. Settings are tried side by side, `--jobs` at a time, in six tenths of the `--seconds` of
a data set, each until NDCG@10 of the second-to-last events has not risen for a while. The best is fitted again to all
but the last events, for as many epochs. NAME.json gets what was tried and found, NAME.npz the ranks of the last events;
`python -m benchmarks order sasrec DIR` puts them into docs/results/order.json.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

BLOCKS, HEADS, BATCH, EVERY, PATIENCE = 2, 2, 128, 2, 10
"""Blocks, heads, histories a step, epochs between looks at the held-out events, and looks without a gain to stop at."""
LONGEST, USUAL = 200, 50
"""The events of a history that count: those of 200 where users have 50 and more on average, else 50."""
TUNING_SHARE = 0.6
AT = 10


class Setting(NamedTuple):
    """What is tuned."""

    dimension: int
    dropout: float
    learning_rate: float


SETTINGS = (
    Setting(128, 0.2, 1e-3),
    Setting(128, 0.5, 1e-3),
    Setting(256, 0.2, 1e-3),
    Setting(256, 0.5, 1e-3),
    Setting(64, 0.2, 1e-3),
    Setting(64, 0.5, 1e-3),
    Setting(256, 0.5, 3e-4),
    Setting(128, 0.5, 3e-3),
)


class Sequences(NamedTuple):
    """The items of each user, oldest first: those of user u are items[starts[u]:starts[u + 1]]."""

    starts: Any
    items: Any
    n_items: int

    @classmethod
    def read(cls, path: Path) -> Sequences:
        """Return what a file holds."""
        with np.load(path) as file:
            return cls(file["starts"].astype(np.int64), file["items"].astype(np.int64), int(file["n_items"]))

    def drop_last(self, n: int) -> Sequences:
        """Return all but the last `n` events of each user."""
        lengths = np.maximum(np.diff(self.starts) - n, 0)
        starts = np.concatenate(([0], np.cumsum(lengths)))
        places = np.arange(starts[-1]) + np.repeat(self.starts[:-1] - starts[:-1], lengths)
        return Sequences(starts, self.items[places], self.n_items)

    def take_last(self) -> Any:
        """Return the last item of each user, (n_users,), -1 for users without events."""
        ends = self.starts[1:]
        return np.where(np.diff(self.starts) > 0, self.items[ends - 1], -1)

    def pad(self, width: int) -> tuple[Any, Any]:
        """Return the last `width` items of each user, counted from 1, with zeros after them, and how many these are."""
        lengths = np.minimum(np.diff(self.starts), width)
        padded = np.zeros((len(lengths), width), np.int64)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        padded[rows, columns] = self.items[(self.starts[1:] - lengths)[rows] + columns] + 1
        return padded, lengths


class Block(nn.Module):
    """Attention to what came before, then a layer for each place; both normalized first and added."""

    def __init__(self, dimension: int, dropout: float) -> None:
        super().__init__()
        self.before_attention, self.before_layer = nn.LayerNorm(dimension), nn.LayerNorm(dimension)
        self.queries_keys_values, self.mix = nn.Linear(dimension, 3 * dimension), nn.Linear(dimension, dimension)
        self.inner, self.outer = nn.Linear(dimension, 4 * dimension), nn.Linear(4 * dimension, dimension)
        self.dropout, self.share = nn.Dropout(dropout), dropout

    def forward(self, x: Tensor) -> Tensor:
        """Return the next states, of the shape of `x`, (users, places, dimension)."""
        n, length, dimension = x.shape
        parts = self.queries_keys_values(self.before_attention(x)).view(n, length, 3, HEADS, dimension // HEADS)
        seen = functional.scaled_dot_product_attention(
            *parts.permute(2, 0, 3, 1, 4), dropout_p=self.share if self.training else 0.0, is_causal=True
        )
        x = x + self.dropout(self.mix(seen.transpose(1, 2).reshape(n, length, dimension)))
        return x + self.dropout(self.outer(self.dropout(functional.gelu(self.inner(self.before_layer(x))))))


class SASRec(nn.Module):
    """Item and place embeddings, blocks, and scores by the item embeddings once more.

    Histories begin at the first place, so that none sees the zeros after it; places are counted from the newest event.
    """

    def __init__(self, n_items: int, width: int, setting: Setting) -> None:
        super().__init__()
        self.items = nn.Embedding(n_items + 1, setting.dimension, padding_idx=0)
        self.places = nn.Embedding(width, setting.dimension)
        self.blocks = nn.ModuleList([Block(setting.dimension, setting.dropout) for _ in range(BLOCKS)])
        self.norm, self.dropout = nn.LayerNorm(setting.dimension), nn.Dropout(setting.dropout)
        for embedding in (self.items, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, histories: Tensor, lengths: Tensor) -> Tensor:
        """Return the state after each event, (users, places, dimension), of histories, (users, places)."""
        ages = lengths[:, None] - 1 - torch.arange(histories.shape[1], device=histories.device)
        x = self.items(histories) * math.sqrt(self.items.embedding_dim) + self.places(ages.clamp(min=0))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def score(self, states: Tensor) -> Tensor:
        """Return the scores of all items, (n, n_items), for states, (n, dimension)."""
        return states @ self.items.weight[1:].T


def cut_batches(n: int, size: int, device: torch.device, *, shuffled: bool = False) -> Iterator[Tensor]:
    """Return the rows of each batch."""
    order = torch.randperm(n, device=device) if shuffled else torch.arange(n, device=device)
    return iter(order.split(size))


@torch.no_grad()
def rank_next(model: SASRec, histories: Sequences, targets: Any, width: int, device: torch.device) -> Any:
    """Return the rank of each user's target among the items not in the history, (n_users,); 0 without a target."""
    model.eval()
    padded, lengths = (torch.from_numpy(each).to(device) for each in histories.pad(width))
    wanted, starts = torch.from_numpy(targets).to(device), torch.from_numpy(histories.starts).to(device)
    items, ranks = torch.from_numpy(histories.items).to(device), torch.zeros(len(targets), device=device)
    for rows in cut_batches(len(targets), 512, device):
        rows = rows[(lengths[rows] > 0) & (wanted[rows] >= 0)]
        if not len(rows):
            continue
        states = model(padded[rows], lengths[rows])
        scores = model.score(states[torch.arange(len(rows), device=device), lengths[rows] - 1]).float()
        counts = starts[rows + 1] - starts[rows]
        of = torch.repeat_interleave(torch.arange(len(rows), device=device), counts)
        at = torch.arange(len(of), device=device) - torch.repeat_interleave(counts.cumsum(0) - counts, counts)
        mine = scores.gather(1, wanted[rows, None])
        scores[of, items[starts[rows][of] + at]] = -torch.inf
        ranks[rows] = 1 + (scores > mine).sum(1).float()
    return ranks.cpu().numpy().astype(np.int32)


def compute_ndcg(ranks: Any) -> float:
    """Return NDCG@10 of one event for each user, by its ranks."""
    ranks = ranks[ranks > 0].astype(np.float64)
    return float(np.where(ranks <= AT, 1 / np.log2(ranks + 1), 0).mean())


def choose_width(sequences: Sequences) -> int:
    """Return the number of events of a history that count."""
    return LONGEST if np.diff(sequences.starts).mean() >= USUAL else USUAL


def train_epochs(model: SASRec, setting: Setting, sequences: Sequences, width: int) -> Iterator[int]:
    """Train one epoch at a time, and yield how many were."""
    device = next(model.parameters()).device
    padded, lengths = (torch.from_numpy(each).to(device) for each in sequences.pad(width + 1))
    with_next = torch.nonzero(lengths > 1)[:, 0]
    optimizer = torch.optim.Adam(model.parameters(), setting.learning_rate, betas=(0.9, 0.98))
    epochs = 0
    while True:
        model.train()
        for batch in cut_batches(len(with_next), BATCH, device, shuffled=True):
            rows = with_next[batch]
            longest = int(lengths[rows].max())
            history, following = padded[rows, : longest - 1], padded[rows, 1:longest]
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                states = model(history, lengths[rows] - 1)
                loss = functional.cross_entropy(model.score(states[following > 0]), following[following > 0] - 1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        epochs += 1
        yield epochs


def find_device() -> torch.device:
    """Return the GPU if there is one."""
    torch.set_float32_matmul_precision("high")
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def make_model(sequences: Sequences, width: int, setting: Setting, device: torch.device) -> SASRec:
    """Return a model before its first step, the same for a setting every time."""
    torch.manual_seed(0)
    return SASRec(sequences.n_items, width, setting).to(device)


def tune(sequences: Sequences, setting: Setting, seconds: float) -> dict[str, Any]:
    """Return how a setting does on the second-to-last events, and its best state."""
    device, began, width = find_device(), time.perf_counter(), choose_width(sequences)
    given = sequences.drop_last(2)
    wanted = sequences.drop_last(1).take_last()
    model = make_model(sequences, width, setting, device)
    best, best_epochs, state, curve, why = -1.0, 0, {}, [], "time"
    for epochs in train_epochs(model, setting, given, width):
        is_late = time.perf_counter() - began > seconds
        if epochs % EVERY and not is_late:
            continue
        curve.append(compute_ndcg(rank_next(model, given, wanted, width, device)))
        if curve[-1] > best:
            best, best_epochs = curve[-1], epochs
            state = {name: value.detach().cpu().numpy().copy() for name, value in model.state_dict().items()}
        since = epochs - best_epochs
        if since >= EVERY * PATIENCE:
            why = "no gain"
        if is_late or why == "no gain":
            break
    took = time.perf_counter() - began
    facts = {"setting": setting._asdict(), "ndcg@10": best, "epochs": best_epochs, "seconds": took, "stopped by": why}
    return {"facts": facts | {"curve": [round(each, 5) for each in curve]}, "state": state}


def fit(sequences: Sequences, setting: Setting, epochs: int, seconds: float) -> tuple[SASRec, int, float]:
    """Return a model fitted for so many epochs, or as many as there is time for, with their number and the seconds."""
    device, began, width = find_device(), time.perf_counter(), choose_width(sequences)
    model = make_model(sequences, width, setting, device)
    done = 0
    for done in train_epochs(model, setting, sequences, width):
        if done >= epochs or time.perf_counter() - began > seconds:
            break
    return model, done, time.perf_counter() - began


def measure(path: Path, seconds: float, jobs: int, settings: tuple[Setting, ...]) -> tuple[dict[str, Any], Any, Any]:
    """Return what is found on a data set, and the ranks of the last events: by the model fitted again, and by the one
    that was tuned, which has not seen the second-to-last events."""
    sequences, began = Sequences.read(path), time.perf_counter()
    share = TUNING_SHARE * seconds / math.ceil(len(settings) / jobs)
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=spawning) as pool:
        tried = list(pool.map(tune, [sequences] * len(settings), settings, [share] * len(settings)))
    best = max(tried, key=lambda each: each["facts"]["ndcg@10"])
    setting, device, width = Setting(**best["facts"]["setting"]), find_device(), choose_width(sequences)
    given, wanted = sequences.drop_last(1), sequences.take_last()
    tuned = make_model(sequences, width, setting, device)
    tuned.load_state_dict({name: torch.from_numpy(value) for name, value in best["state"].items()})
    before = rank_next(tuned, given, wanted, width, device)
    tuning = time.perf_counter() - began
    model, epochs, took = fit(given, setting, best["facts"]["epochs"], seconds - tuning)
    ranks = rank_next(model, given, wanted, width, device)
    found = {
        "params": setting._asdict() | {"blocks": BLOCKS, "heads": HEADS, "events": width, "epochs": epochs},
        "whole": epochs == best["facts"]["epochs"],
        "seconds": took,
        "tuning": tuning,
        "tried": [each["facts"] for each in tried],
        "ndcg@10": compute_ndcg(ranks),
        "ndcg@10 without the second-to-last events": compute_ndcg(before),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }
    return found, ranks, before


def main() -> None:
    """Measure each data set, and write what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sasrec", description=main.__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of files NAME.npz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=150, help="for each data set, tuning included")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these data sets; without: all there are")
    parser.add_argument("--jobs", type=int, help="settings at a time; without: all on a GPU, else one")
    parser.add_argument("--settings", type=int, default=len(SETTINGS), help="try the first so many")
    asked = parser.parse_args()
    settings = SETTINGS[: asked.settings]
    jobs = asked.jobs or (len(settings) if torch.cuda.is_available() else 1)
    paths = sorted(path for path in asked.data.glob("*.npz") if asked.only is None or path.stem in asked.only)
    if not paths or (asked.only is not None and len(paths) < len(set(asked.only))):
        there = ", ".join(sorted(path.stem for path in asked.data.glob("*.npz"))) or "none"
        parser.error(f"not all of these data sets are in {asked.data}; there are: {there}")
    asked.out.mkdir(parents=True, exist_ok=True)
    for path in paths:
        found, ranks, before = measure(path, asked.seconds, jobs, settings)
        np.savez_compressed(asked.out / path.name, ranks=ranks, before=before)
        (asked.out / f"{path.stem}.json").write_text(json.dumps(found, indent=1) + "\n")
        shown = {name: found[name] for name in ("params", "whole", "seconds", "tuning", "ndcg@10")}
        print(path.stem, json.dumps(shown), flush=True)


if __name__ == "__main__":
    main()
