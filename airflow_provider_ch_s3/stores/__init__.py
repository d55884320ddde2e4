"""The object stores: each store lists objects, and says how the ClickHouse servers reach them."""
