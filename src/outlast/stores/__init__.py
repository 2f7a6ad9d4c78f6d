"""THE CUPBOARDS: one module or package per place where runs can be kept.

Each implements `outlast.store` and knows nothing of the others; each passes `outlast.testing.contract`. They are imported
only when one of them is opened, so a driver that is not used costs nothing.
"""
