DESCRIBE TABLE icebergS3(
    'http://s3:9000/flights/it\'s/t/',
    {s3_access_key:String}, {s3_secret_key:String},
    'Parquet',
    SETTINGS iceberg_metadata_file_path = 'metadata/1-it\'s.metadata.json')
SETTINGS
    iceberg_snapshot_id = 7
