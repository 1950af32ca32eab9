package console

// Needs returns what each page and act needs, by its pattern.
func Needs() map[string]string {
	needs := map[string]string{}
	for _, p := range pages() {
		needs[p.pattern] = p.needs
	}
	return needs
}
