package web

import (
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"
)

// Funcs returns the functions of templates. now is the time to which relative times refer; assets
// resolves the names of static files.
func Funcs(assets *Assets, now func() time.Time) template.FuncMap {
	return template.FuncMap{
		"asset": assets.URL, "ago": func(at any) template.HTML { return Time(timeOf(at), now()) }, "clock": Clock, "readAt": readAt,
		"now":    func() time.Time { return now().UTC() },
		"number": func(n any) string { return Number(integer(n)) }, "bytes": func(n any) string { return Bytes(integer(n)) },
		"duration": Duration, "ms": func(v any) string { return Milliseconds(float(v)) }, "seconds": func(v any) string { return Seconds(float(v)) },
		"percent": func(v any) string { return Percent(float(v)) }, "rate": Rate,
		"status": func(s any) template.HTML { return Status(text(s)) }, "statusAs": StatusAs, "circuit": func(s any) template.HTML { return Circuit(text(s)) },
		"subscription": func(s, circuit any) template.HTML { return Subscription(text(s), text(circuit)) },
		"isPast":       func(at any) bool { t := timeOf(at); return t != nil && t.Before(now()) },
		"short":        func(s any) string { return Short(text(s)) }, "host": func(s any) string { return Host(text(s)) }, "text": text,
		"tree": Tree, "pretty": Pretty, "join": strings.Join, "list": func(v ...any) []any { return v }, "dict": dict, "spark": Sparkline,
		"kind":    func(s any) string { return strings.ReplaceAll(text(s), "_", " ") },
		"segment": url.PathEscape, "query": url.QueryEscape, "plural": Plural,
		"localTime": LocalTime,
	}
}

// LocalTime returns a time in RFC 3339 in the form of a datetime-local field, in UTC and to the
// millisecond. Other text is returned unchanged.
func LocalTime(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return text
	}
	return at.UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.999")
}

// Plural writes a count with the form of a noun that fits, for example 1 delivery, 1 284 deliveries.
func Plural(n any, one, many string) string {
	count := integer(n)
	if count == 1 {
		return "1 " + one
	}
	return Number(count) + " " + many
}

// dict builds the data of a component from names and values.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d arguments are not pairs", len(pairs))
	}
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is not a name", pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}
