SELECT currentUser() AS user, currentDatabase() AS database, version() AS version
