package route

import (
	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/script"
)

// Check says what is wrong with a route's filters and transform, all of it at
// once: at filter and the path in it, filter_expression, filter_function,
// transform.type and transform.expression; with line and column where they are
// known. Whoever writes a route calls it beside Route.Validate, which looks at
// the rest. It compiles everything, scripts in a process of their own, takes
// less than a second whatever it is given, and is safe for concurrent use.
func Check(r eventhook.Route) eventhook.Faults {
	var f eventhook.Faults
	checkPattern(&f, &r)
	checkExpression(&f, r.FilterExpression)
	if r.FilterFunction != "" {
		checkScript(&f, "filter_function", script.Program{Kind: script.Filter, Source: r.FilterFunction})
	}
	if r.Transform != nil {
		checkTransform(&f, *r.Transform)
	}
	return f
}

func checkPattern(f *eventhook.Faults, r *eventhook.Route) {
	if !hasFilter(r) {
		return
	}
	_, faults := compilePattern(r.Filter, &fields{})
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

func checkTransform(f *eventhook.Faults, t eventhook.Transform) {
	kind, ok := transforms[t.Type]
	if !ok {
		f.Add("transform.type", "%q is not one of %s, %s", eventhook.Label(t.Type), eventhook.TransformJMESPath, eventhook.TransformJavaScript)
	}
	switch {
	case t.Expression == "":
		f.Add("transform.expression", "is required")
	case eventhook.Text(t.Expression) != t.Expression:
		f.Add("transform.expression", "must be UTF-8 without NUL")
	case ok:
		checkScript(f, "transform.expression", script.Program{Kind: kind, Source: t.Expression})
	}
}

func checkScript(f *eventhook.Faults, location string, program script.Program) {
	if err := trying.Check(program); err != nil {
		f.Add(location, "%s", eventhook.Text(err.Error()))
	}
}
