KILL QUERY
WHERE startsWith(initial_query_id, 'ch-s3-0\'1-2-')
ASYNC
