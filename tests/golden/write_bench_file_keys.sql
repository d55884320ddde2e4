INSERT INTO FUNCTION s3('http://store:9000/bucket/events/0.csv.gz', {s3_access_key:String}, {s3_secret_key:String})
WITH 20 AS row_count
SELECT
    number AS `id`,
    concat('row ', toString(number % row_count)) AS `it's`
FROM numbers(10, 5)
SETTINGS s3_truncate_on_insert = 1
