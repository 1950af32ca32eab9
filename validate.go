package eventhook

import "strings"

func checkSlug(f *Faults, location, slug string) {
	if !IsSlug(slug) {
		f.Add(location, "%q must be 1 to 63 lower-case letters, digits and inner hyphens", slug)
	}
}

func checkName(f *Faults, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		f.Add("name", "is required")
	case len(name) > maxName:
		f.Add("name", "has %d bytes, at most %d are allowed", len(name), maxName)
	case !isText(name):
		f.Add("name", "must be UTF-8 without NUL")
	}
}

// checkFreeText reports a text that is too long or has other characters than text. Empty is valid.
func checkFreeText(f *Faults, location, s string, maxBytes int) {
	if len(s) > maxBytes || !isText(s) {
		f.Add(location, "must be UTF-8 without NUL of at most %d bytes", maxBytes)
	}
}

func checkLength(f *Faults, location string, list []string, limit int) {
	if len(list) > limit {
		f.Add(location, "%d, at most %d are allowed", len(list), limit)
	}
}

func checkLine(f *Faults, location, s string) {
	if len(s) > MaxKeyBytes || !isText(s) || strings.ContainsAny(s, "\r\n") {
		f.Add(location, "must be a single line of at most %d bytes of text", MaxKeyBytes)
	}
}

func checkRange(f *Faults, location string, v, low, high int) {
	if v < low || v > high {
		f.Add(location, "%d is not between %d and %d", v, low, high)
	}
}

func orDefault[T comparable](v, fallback T) T {
	var zero T
	if v == zero {
		return fallback
	}
	return v
}
