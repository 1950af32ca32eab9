package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/eventhook/eventhook/client"
)

// The names of arguments with a meaning of their own.
const (
	tenantName = "tenant"
	countName  = "expected_count"
)

// arguments are the arguments of a call.
type arguments map[string]json.RawMessage

// request returns the request of a call with arguments. Its error tells the model how to correct
// the call.
func (x *operationTool) request(tenant string, raw json.RawMessage) (client.Request, error) {
	args := arguments{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return client.Request{}, errors.New("the arguments must be a JSON object")
		}
	}
	if err := x.check(args); err != nil {
		return client.Request{}, err
	}
	r := client.Request{Method: x.op.method, Path: x.op.path, Names: map[string]string{tenantName: tenant}, Query: url.Values{}}
	for _, p := range x.op.Parameters {
		value, given := args[p.Name]
		delete(args, p.Name)
		switch {
		case p.In == "path" && given:
			r.Names[p.Name] = text(value)
		case p.In == "query" && given:
			r.Query.Set(p.Name, text(value))
		case p.In == "query" && p.Name == "limit":
			r.Query.Set(p.Name, fmt.Sprint(pageSize))
		}
	}
	if x.op.RequestBody == nil {
		return r, nil
	}
	var err error
	r.Body, err = json.Marshal(args)
	return r, err
}

// check reports unknown and missing arguments. A null counts as missing.
func (x *operationTool) check(args arguments) error {
	var faults []string
	for name, value := range args {
		if !slices.Contains(x.input.names(), name) {
			faults = append(faults, fmt.Sprintf("%q is no argument", name))
		}
		if string(value) == "null" {
			delete(args, name)
		}
	}
	for _, name := range x.input.required {
		if _, given := args[name]; !given {
			faults = append(faults, name+" is required")
		}
	}
	if len(faults) == 0 {
		return nil
	}
	slices.Sort(faults)
	return fmt.Errorf("%s; the arguments of %s are: %s", strings.Join(faults, "; "), x.name(), strings.Join(x.input.names(), ", "))
}

// text returns the text of an argument in a path or query: a JSON string without its quotes, a
// list of texts with commas, and other values as they are.
func text(value json.RawMessage) string {
	var s string
	if json.Unmarshal(value, &s) == nil {
		return s
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil {
		texts := make([]string, len(list))
		for i, item := range list {
			texts[i] = text(item)
		}
		return strings.Join(texts, ",")
	}
	return string(value)
}
