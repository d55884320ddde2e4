KILL QUERY ON CLUSTER `it's`
WHERE startsWith(initial_query_id, 'ch-s3-0\'1-2-')
ASYNC
