package portal

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
	"github.com/eventhook/eventhook/internal/web"
)

var typePages = []page{{pattern: "GET /portal/types", template: "types", handle: (*Portal).typeList}}

// offeredType is an event type of the catalogue with its texts.
type offeredType struct {
	client.EventType
	Example string // JSON; "" without a schema
	Schema  string // JSON; "" without a schema
	// IsLeftOut is true if the texts do not fit into the page.
	IsLeftOut bool
}

// category is a group of event types.
type category struct {
	Name  string // "" for types without one
	Types []offeredType
}

func (p *Portal) typeList(r *request) (view, error) {
	types, err := r.offeredTypes()
	return view{Title: "Event types", Data: categoriesOf(types)}, err
}

// maxTexts limits the examples and schemas of a page, in bytes.
const maxTexts = 512 << 10

// categoriesOf groups event types by category, both in alphabetical order; types without a category
// are last.
func categoriesOf(types []client.EventType) (groups []category) {
	types = slices.Clone(types)
	left := maxTexts
	slices.SortFunc(types, func(a, b client.EventType) int {
		return cmp.Or(compareCategories(a.Category, b.Category), strings.Compare(a.Name, b.Name))
	})
	for _, t := range types {
		if len(groups) == 0 || groups[len(groups)-1].Name != t.Category {
			groups = append(groups, category{Name: t.Category})
		}
		last, one := &groups[len(groups)-1], offeredType{EventType: t, Example: exampleText(t), Schema: indented(t.Schema)}
		if left -= len(one.Example) + len(one.Schema); left < 0 && t.Schema != nil {
			one.Example, one.Schema, one.IsLeftOut = "", "", true
		}
		one.EventType.Schema = nil // the page has the text
		last.Types = append(last.Types, one)
	}
	return groups
}

func compareCategories(a, b string) int {
	if (a == "") != (b == "") {
		return strings.Compare(b, a)
	}
	return strings.Compare(a, b)
}

func exampleText(t client.EventType) string {
	if t.Schema == nil {
		return ""
	}
	return pretty(exampleOf(t.Schema, 0))
}

func indented(schema map[string]any) string {
	if schema == nil {
		return ""
	}
	return pretty(schema)
}

// pretty returns a value of the API as indented JSON, cut as in every page.
func pretty(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return web.Pretty(raw)
}
