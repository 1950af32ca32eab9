package ingest

// HandshakeMethods are the methods besides POST that each handshake takes, by
// its name.
func HandshakeMethods() map[string][]string {
	all := map[string][]string{}
	for name, s := range handshakes {
		all[name] = nil
		for _, some := range []steps{s.unsigned, s.signed} {
			for method := range some {
				if method != "POST" {
					all[name] = append(all[name], method)
				}
			}
		}
	}
	return all
}
