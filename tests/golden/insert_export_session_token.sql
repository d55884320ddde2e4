INSERT INTO FUNCTION s3(
    'http://s3:9000/flights/it\'s/part-ch-s3-0-1.parquet',
    {s3_access_key:String}, {s3_secret_key:String}, {s3_session_token:String},
    'Parquet', 'auto', 'auto')
SELECT *
FROM (
SELECT id, dt FROM flights ORDER BY id -- all of them
)
SETTINGS
    max_insert_threads = 4, date_time_input_format = 'best_effort', log_comment = '{"dag": "it\'s"}'
