DESCRIBE TABLE s3(
    `my\`keys`, url = 'http://s3:9000/flights/dt={1,2}/a.parquet',
    format = 'Parquet', structure = 'auto', compression_method = 'auto')
SETTINGS
    format_csv_delimiter = ';'
