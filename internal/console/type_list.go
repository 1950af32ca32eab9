package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
)

var typePages = []page{
	{pattern: "GET /console/t/{tenant}/types", template: "types", handle: (*Console).types},
	{pattern: "GET /console/t/{tenant}/new-type", needs: "manage",
		template: "type_edit", handle: (*Console).newType, section: "Event types"},
	{pattern: "POST /console/t/{tenant}/new-type", needs: "manage",
		template: "type_edit", handle: (*Console).saveType, section: "Event types"},
	{pattern: "GET /console/t/{tenant}/types/{name}", template: "type", handle: (*Console).eventType},
	{pattern: "GET /console/t/{tenant}/types/{name}/edit", needs: "manage",
		template: "type_edit", handle: (*Console).editType},
	{pattern: "POST /console/t/{tenant}/types/{name}/edit", needs: "manage",
		template: "type_edit", handle: (*Console).saveType},
	{pattern: "POST /console/t/{tenant}/types/{name}/delete", needs: "manage", handle: (*Console).deleteType},
	{pattern: "POST /console/t/{tenant}/types/{name}/publish", needs: "publish",
		template: "type", handle: (*Console).publishTest},
}

// maxTypes limits the catalogue in a page.
const maxTypes = 1000

// typeRow is an event type in the list, without its schema.
type typeRow struct {
	client.EventType
	HasSchema bool
}

// typeGroup has the event types of a category.
type typeGroup struct {
	Category string
	Types    []typeRow
}

// typeList is the data of the catalogue.
type typeList struct {
	Groups       []typeGroup
	Filter       form
	Visibilities []string
	Shown        int
	IsFiltered   bool
	IsCut        bool // the catalogue has more types than the page
	HasOwn       bool // the tenant has described a type
}

var typeVisibilities = []string{"portal", "tenant", "admin"}

func (c *Console) types(r *request) (view, error) {
	const pageSize = 50 // schemas are large
	limit, read := int64(pageSize), 0
	list := typeList{Filter: form{Values: r.URL.Query()}, Visibilities: typeVisibilities}
	list.IsFiltered = r.filter("name") != nil || r.filter("category") != nil || r.filter("visibility") != nil
	for t, err := range r.api.AllEventTypes(r.Context(), r.tenant, client.ListEventTypesParams{Limit: &limit}) {
		if err != nil {
			return view{}, err
		}
		if read++; read > maxTypes {
			list.IsCut = true
			break
		}
		list.add(t)
	}
	slices.SortFunc(list.Groups, byCategory)
	return view{Title: "Event types", Data: list}, nil
}

// add puts a type into its group if the filters allow it.
func (l *typeList) add(t client.EventType) {
	l.HasOwn = l.HasOwn || !t.IsBuiltin
	category, visibility := l.Filter.Get("category"), l.Filter.Get("visibility")
	if category != "" && category != t.Category || visibility != "" && visibility != string(t.Visibility) ||
		!strings.Contains(strings.ToLower(t.Name), strings.ToLower(l.Filter.Get("name"))) {
		return
	}
	l.Shown++
	i := slices.IndexFunc(l.Groups, func(g typeGroup) bool { return g.Category == t.Category })
	if i < 0 {
		i, l.Groups = len(l.Groups), append(l.Groups, typeGroup{Category: t.Category})
	}
	row := typeRow{t, t.Schema != nil}
	row.Schema = nil
	l.Groups[i].Types = append(l.Groups[i].Types, row)
}

// byCategory orders groups by category. The gateway's own types are last.
func byCategory(a, b typeGroup) int {
	if a.isOfGateway() != b.isOfGateway() {
		return map[bool]int{true: 1, false: -1}[a.isOfGateway()]
	}
	return cmp.Compare(a.Category, b.Category)
}

func (g typeGroup) isOfGateway() bool { return len(g.Types) > 0 && g.Types[0].IsBuiltin }

func (r *request) typePath(name string) string { return r.base() + "/types/" + url.PathEscape(name) }
