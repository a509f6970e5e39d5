"""What a reader must know to trust the numbers, in words."""

METRICS = (
    ("P@N, precision", "Hits among the first N items of a list, divided by N; the mean over users."),
    ("R@N, recall", "Hits among the first N items, divided by the user's held-out items; the mean over users."),
    (
        "F@N",
        "The harmonic mean of mean precision and mean recall, not the mean of each user's F: it reproduces the printed "
        "cells to 1e-4, but for two, which are off by 4e-4.",
    ),
    (
        "NDCG@N",
        "As the paper computed it: the gain of the hits, discounted by rank, divided by the gain of the same hits "
        "moved to the front; 0 without hits. It judges the order of the hits, not how many there are. By the protocol "
        "“text” it is the standard one.",
    ),
    (
        "standard NDCG@N",
        "The same gain divided by that of an ideal list for the user's held-out items, as is usual today.",
    ),
)
TUNING = (
    "Parameters are never chosen on test events: points are judged by standard NDCG@10 on a tenth of each user's "
    "training events, set aside for it. How "
    "many points were tried for each system, and what was chosen, stands under each table, and so does whether every "
    "split was tuned on its own training events (--tune each) or the first one's parameters serve all (--tune once). "
    "Then the test events of the other splits are in part among the events they were chosen on."
)
INTERVALS = (
    "A number after ± is half the width of the mean's 95 % interval over users. A relative difference is (ours − "
    "printed) / printed: + is above what the paper prints, − below. Bold is the best of ours in a column. p values are "
    "corrected by Holm's method, those of one system against all others together."
)
DIFFERENCES = (
    "The text counts ratings larger than 3 as positive; the printed numbers fit ratings of 3 and more. Protocol "
    "“numbers” follows the numbers, “text” the text.",
    "The printed NDCG is normalised by the hits of the list itself, which makes it much higher than precision.",
    "On MovieLens-100K the printed rows of MC-Shift and CSRR fit no protocol that also fits PopRank, BPRMF and WRMF: "
    "5 · P@5 / R@5, a mean of the users' numbers of held-out items weighted by hits, is 16.8 to 17.4 in the former and "
    "11.8 to 13.1 in the latter. By “all-ratings” the former come nearer.",
    "Strengths are searched as fractions of the one that gives zero, on a finer grid than the paper's, c_p on a "
    "coarser one; for the paper's systems, the number that was best on validation data is then used as it is, as the "
    "paper does. The paper's grids for its models are at hand as csrr tune --space paper.",
    "Algorithm 2 holds single coordinates of the factors of CSRR-e in [0, 1/√d], which 0/1 targets do not fit in: "
    "“CSRR-e, boxed” does so to the letter. The objective only asks for scores in [0, 1]; “CSRR-e” leaves the factors "
    "free, and the loss pulls the scores there, if not to the last one. V is at its best after each inner loop; the "
    "paper's single proximal step is v_update=\"step\", with the safe step the same. The authors' code is not known.",
    "Without the box and without V, CSRR-II is MC-Shift: all cells have one weight, and α only rescales λ₁. What its "
    "row gains over MC-Shift's is V's.",
    "“CSRR, scaled” is tuned as the others are. “CSRR, scaled, by rule” and “CSRR()” are not tuned by this protocol: "
    "their rules (scalings of 0.3, half the noise level; which strengths and neighbours are tried on held-out training "
    "events) were set with MovieLens and EachMovie among the data sets at hand, so that these tables are no blind test "
    "of them.",
    "In the comparison, the convex models are solved to a certified gap instead of for a number of steps, so that a "
    "step size has no part in their results.",
)
