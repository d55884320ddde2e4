SELECT concat(hostName(), ':', toString(tcpPort())) AS node
