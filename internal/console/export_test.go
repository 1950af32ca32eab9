package console

// Needs returns what each page and act needs, by its pattern.
func Needs() map[string]string {
	needs := map[string]string{}
	for _, p := range pages() {
		needs[p.pattern] = p.needs
	}
	return needs
}

// Scopes returns the scopes of which one opens each page and act of a tenant, by its pattern.
func Scopes() map[string][]string {
	scopes := map[string][]string{}
	for _, p := range pages() {
		scopes[p.pattern] = p.scopes()
	}
	return scopes
}
