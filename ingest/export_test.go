package ingest

// HandshakeMethods returns, for each handshake by name, the methods besides POST that it
// accepts.
func HandshakeMethods() map[string][]string {
	all := map[string][]string{}
	for name, s := range handshakes {
		all[name] = nil
		for _, steps := range []methodSteps{s.unsigned, s.signed} {
			for method := range steps {
				if method != "POST" {
					all[name] = append(all[name], method)
				}
			}
		}
	}
	return all
}
