SELECT currentUser() AS user
