"""Recommendation from implicit feedback: robust, cost-sensitive, convex, certified."""
