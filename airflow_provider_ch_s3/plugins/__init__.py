"""What the package adds to Airflow's UI."""
