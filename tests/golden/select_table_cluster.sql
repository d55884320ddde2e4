SELECT *
FROM cluster('it\'s', 'it\'s', 'a`b')
