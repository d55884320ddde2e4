"""A demo: a real Airflow loads a year of flights into a sandbox."""
