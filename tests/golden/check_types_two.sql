SELECT
    defaultValueOfTypeName('UInt8') IS NULL,
    defaultValueOfTypeName('Enum8(\'it\\\'s\' = 1)') IS NULL
