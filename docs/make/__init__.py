"""What docs/from_results.py makes of docs/results: a module for each page or table."""
