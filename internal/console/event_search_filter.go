package console

import (
	"bytes"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// operator is an operator of a filter, with its name in the form.
type operator struct{ Name, Label string }

var operators = []operator{{"$eq", "is"}, {"$ne", "is not"}, {"$contains", "contains"}, {"$startsWith", "starts with"}, {"$endsWith", "ends with"},
	{"$gt", ">"}, {"$gte", "≥"}, {"$lt", "<"}, {"$lte", "≤"}, {"$in", "is one of"}, {"$nin", "is none of"}, {"$regex", "matches regex"}, {"$exists", "exists"}}

// conditionRow is a row of the form that builds a filter.
type conditionRow struct{ Path, Operator, Value string }

// Limits of the rows: one more than is used is offered.
const (
	leastRows = 2
	mostRows  = 10
)

// readConditions returns the conditions of the rows that have a path, and the rows to show.
func readConditions(q url.Values) (conditions []map[string]any, rows []conditionRow) {
	at := func(name string, i int) string {
		if list := q[name]; i < len(list) {
			return strings.TrimSpace(list[i])
		}
		return ""
	}
	for i := range min(len(q["path"]), mostRows) {
		row := conditionRow{at("path", i), at("op", i), at("value", i)}
		if row.Path == "" {
			continue
		}
		if !slices.ContainsFunc(operators, func(o operator) bool { return o.Name == row.Operator }) {
			row.Operator = operators[0].Name
		}
		rows = append(rows, row)
		conditions = append(conditions, map[string]any{row.Path: map[string]any{row.Operator: operandOf(row)}})
	}
	for len(rows) < leastRows || len(rows) == len(conditions) && len(rows) < mostRows {
		rows = append(rows, conditionRow{})
	}
	return conditions, rows
}

// operandOf returns the value of a row as JSON: a number, true, false, null, a list, or a text in
// quotes; any other text is itself.
func operandOf(row conditionRow) any {
	switch row.Operator {
	case "$exists":
		return row.Value != "false" && row.Value != "no"
	case "$in", "$nin":
		return listOf(row.Value)
	case "$startsWith", "$endsWith", "$regex":
		return row.Value
	}
	return scalarOf(row.Value)
}

func scalarOf(text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // so that no digit is lost
	var v any
	if d.Decode(&v) != nil || d.More() {
		return text
	}
	return v
}

// listOf returns a JSON list, or the values between commas.
func listOf(text string) []any {
	if list, ok := scalarOf(text).([]any); ok {
		return list
	}
	var list []any
	for part := range strings.SplitSeq(text, ",") {
		list = append(list, scalarOf(strings.TrimSpace(part)))
	}
	return list
}

// combineFilter returns a filter in which all conditions and the JSON text hold; nil without any.
// fault is the fault of the text, or "".
func combineFilter(conditions []map[string]any, text string) (filter map[string]any, fault string) {
	all := conditions
	if text = strings.TrimSpace(text); text != "" {
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.UseNumber()
		var own map[string]any
		if err := d.Decode(&own); err != nil || own == nil || d.More() {
			return nil, `is not a JSON object such as {"body.amount": {"$gte": 1000}}`
		}
		all = append(all, own)
	}
	switch len(all) {
	case 0:
		return nil, ""
	case 1:
		return all[0], ""
	}
	return map[string]any{"$and": all}, ""
}
