"""Links from a task into the UI and into ClickHouse."""
