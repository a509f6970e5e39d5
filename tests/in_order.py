"""Logs for models that ask for an order, where a test has none."""

from dataclasses import replace

from csrr.data.log import as_log


def put_in_order(data):
    """Return data as a log; what has no order gets that of the items."""
    log = as_log(data)
    return log if log.is_ordered else replace(log, places=log.item_rows)


def suit(model, log):
    """Return a log as a model, or a class of models, takes it: in order where it asks for that."""
    return put_in_order(log) if (model() if isinstance(model, type) else model).uses_order else log
