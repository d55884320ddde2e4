"""What is there: the cluster, the table, the files, the parts."""
