package portal

// PagePatterns returns the patterns of all pages and acts.
func PagePatterns() (patterns []string) {
	for _, p := range pages() {
		patterns = append(patterns, p.pattern)
	}
	return patterns
}

// SchemaExample is exampleOf for tests.
func SchemaExample(schema any) any { return exampleOf(schema, 0) }
