package route

import (
	"context"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/filter"
	"github.com/eventhook/eventhook/internal/script"
)

// Check says what is wrong with a route's filters and transform, all of it at
// once: at filter and the path in it, filter_expression, filter_function,
// transform.type and transform.expression; with line and column where they are
// known. Whoever writes a route calls it beside Route.Validate, which looks at
// the rest. It compiles everything, scripts in a process of their own, one at a
// time for each tenant, and is safe for concurrent use. When it would take too
// long to come to a script, the error is of KindUnavailable; when ctx ends
// before, it is ctx's.
func Check(ctx context.Context, tenant eventhook.TenantID, r eventhook.Route) (f eventhook.Faults, err error) {
	checkPattern(&f, &r)
	checkExpression(&f, r.FilterExpression)
	var programs []located
	if r.FilterFunction != "" {
		programs = append(programs, located{"filter_function", script.Program{Kind: script.Filter, Source: r.FilterFunction}})
	}
	if r.Transform != nil {
		programs = append(programs, checkTransform(&f, *r.Transform)...)
	}
	for _, p := range programs {
		err := trying.check(ctx, tenant, p.Program)
		if !isAnswer(err) {
			return nil, err
		}
		if err != nil {
			f.Add(p.at, "%s", eventhook.SanitizeText(err.Error()))
		}
	}
	return f, nil
}

// located is a program and where it stands in a route.
type located struct {
	at string
	script.Program
}

func checkPattern(f *eventhook.Faults, r *eventhook.Route) {
	if !filter.IsSet(r.Filter) {
		return
	}
	_, faults := filter.Compile(r.Filter, &filter.Fields{})
	f.Merge("filter", faults)
}

// checkExpression guards against a compiler that panics: what made it do so is
// wrong with the expression, if not with it alone.
func checkExpression(f *eventhook.Faults, text string) {
	if text == "" {
		return
	}
	defer func() {
		if recover() != nil {
			f.Add("filter_expression", "cannot be compiled")
		}
	}()
	_, faults := compileExpression(text)
	f.Merge("filter_expression", faults)
}

// checkTransform returns the program of a transform, if it has one to check.
func checkTransform(f *eventhook.Faults, t eventhook.Transform) []located {
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
		return []located{{"transform.expression", script.Program{Kind: kind, Source: t.Expression}}}
	}
	return nil
}
