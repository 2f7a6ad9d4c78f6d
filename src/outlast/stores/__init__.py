"""The stores: one module or package for each kind of storage.

Each implements `outlast.store`, passes `outlast.testing.contract` and does not depend on the others. A store is imported
when it is opened, so an unused database driver costs nothing.
"""
