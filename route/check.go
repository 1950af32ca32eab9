package route

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/panics"
	"github.com/eventhook/eventhook/internal/script"
)

// Check returns all faults of a route's filters and transform. Their locations are filter with the
// path in it, filter_expression, filter_function, transform.type and transform.expression; texts
// include line and column if known. Route.Validate checks the other settings, and callers that
// store a route need both. Scripts are compiled in a separate process, one at a time for each
// tenant. The error is of KindUnavailable if no such process was free in time, or ctx's error.
// Check is safe for concurrent use.
func Check(ctx context.Context, tenant eventhook.TenantID, r eventhook.Route) (f eventhook.Faults, err error) {
	checkPattern(&f, &r)
	checkExpression(&f, r.FilterExpression)
	var programs []locatedProgram
	if r.FilterFunction != "" {
		programs = append(programs, locatedProgram{"filter_function", script.Program{Kind: script.Filter, Source: r.FilterFunction}})
	}
	if r.Transform != nil {
		programs = append(programs, checkTransform(&f, *r.Transform)...)
	}
	for _, p := range programs {
		err := testScripts.check(ctx, tenant, p.Program)
		if !isScriptResult(err) {
			return nil, err
		}
		if err != nil {
			f.Add(p.at, "%s", eventhook.SanitizeText(err.Error()))
		}
	}
	return f, nil
}

// locatedProgram is a program and its location in a route.
type locatedProgram struct {
	at string
	script.Program
}

func checkPattern(f *eventhook.Faults, r *eventhook.Route) {
	if !filter.IsSet(r.Filter) {
		return
	}
	f.Merge("filter", CheckFilter(r.Filter))
}

// CheckFilter returns all faults of a pattern filter, each at its path in the filter.
func CheckFilter(text []byte) eventhook.Faults {
	_, faults := filter.Compile(text, &filter.Fields{})
	return faults
}

// checkExpression reports a compiler panic as a fault of the expression.
func checkExpression(f *eventhook.Faults, text string) {
	if text == "" {
		return
	}
	defer func() {
		if recover() != nil {
			panics.Count(panics.Route)
			f.Add("filter_expression", "cannot be compiled")
		}
	}()
	_, faults := compileExpression(text)
	f.Merge("filter_expression", faults)
}

// checkTransform returns the program of a transform, nil if the transform has no valid one.
func checkTransform(f *eventhook.Faults, t eventhook.Transform) []locatedProgram {
	kind, ok := transforms[t.Type]
	if !ok {
		f.Add("transform.type", "%q is not one of %s, %s", eventhook.SanitizeLabel(t.Type), eventhook.TransformJMESPath, eventhook.TransformJavaScript)
	}
	switch {
	case t.Expression == "":
		f.Add("transform.expression", "is required")
	case eventhook.SanitizeText(t.Expression) != t.Expression:
		f.Add("transform.expression", "must be UTF-8 without NUL")
	case ok:
		return []locatedProgram{{"transform.expression", script.Program{Kind: kind, Source: t.Expression}}}
	}
	return nil
}
