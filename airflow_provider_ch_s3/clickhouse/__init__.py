"""ClickHouse's language: types, tokens, expressions, statements."""
