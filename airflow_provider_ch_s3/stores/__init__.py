"""The stores that files are loaded from: each lists its objects, and says how the ClickHouse servers reach them."""
