"""The description of the method, for readers of the page."""

METRICS = (
    ("P@N, precision", "Hits among the first N items of a list, divided by N; the mean over users."),
    ("R@N, recall", "Hits among the first N items, divided by the user's held-out items; the mean over users."),
    (
        "F@N",
        "The harmonic mean of mean precision and mean recall, not the mean of each user's F. It reproduces the "
        "printed cells to 1e-4, except for two, which differ by 4e-4.",
    ),
    (
        "NDCG@N",
        "As the paper computed it: the discounted gain of the hits, divided by the gain of the same hits at the top "
        "of the list; 0 without hits. It measures the order of the hits, not their number. In the protocol “text” it "
        "is the standard NDCG.",
    ),
    (
        "standard NDCG@N",
        "The same gain divided by that of an ideal list of the user's held-out items, as is usual today.",
    ),
)
TUNING = (
    "Parameters are never chosen on test events: candidates are compared by standard NDCG@10 on a tenth of each "
    "user's training events. How many were tried and what was chosen is under each table, and so is whether "
    "parameters were tuned on each split (--tune each) or on the first one for all splits (--tune once). In the "
    "second case, some test events of the other splits are among the events used for tuning."
)
INTERVALS = (
    "A cell is a mean over splits, the best of a column in bold. With the box above a table checked, it also has ± "
    "half the width of the 95 % interval of the mean over users, the printed value, and (measured − printed) / "
    "printed: + is above the printed value, − below. p values are corrected by Holm's method, those of one system "
    "against all others together."
)
DIFFERENCES = (
    "The text counts ratings larger than 3 as positive, but the printed numbers fit ratings of 3 and more. Protocol "
    "“numbers” follows the numbers, “text” the text.",
    "The printed NDCG is normalized by the hits of the list itself, which makes it much higher than precision.",
    "On MovieLens-100K the printed rows of MC-Shift and CSRR fit no protocol that also fits PopRank, BPRMF and WRMF. "
    "5 · P@5 / R@5, the mean number of held-out items of a user weighted by hits, is 16.8 to 17.4 in the former and "
    "11.8 to 13.1 in the latter. “all-ratings” comes nearer to the former.",
    "Regularization strengths are searched as fractions of the strength that gives zero, on a finer grid than the "
    "paper's; c_p on a coarser one. For the paper's systems, the absolute value that was best on validation data is "
    "then used, as in the paper. The paper's own grids are available as csrr tune --space paper.",
    "Algorithm 2 constrains each coordinate of the factors of CSRR-e to [0, 1/√d]. “CSRR-e, boxed” does the same. "
    "The objective only asks for scores in [0, 1]: “CSRR-e” leaves the factors free, and the loss keeps most scores "
    'there. V is solved exactly after each inner loop; the paper\'s single proximal step is v_update="step". The '
    "authors' code is not available.",
    "Without the box constraint and without V, CSRR-II is MC-Shift: all cells have the same weight, and α only "
    "rescales λ₁. The difference between the two rows is the effect of V.",
    "“CSRR, scaled” is tuned like the others. “CSRR, scaled, by rule” and “CSRR()” are not tuned by this protocol. "
    "Their rules and default settings were set with MovieLens and EachMovie among the data sets at hand, so these "
    "tables are not a blind test of them.",
    "In the comparison, the convex models are solved to a certified duality gap instead of for a number of steps. "
    "Their results do not depend on a step size.",
)
