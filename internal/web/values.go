package web

import (
	"fmt"
	"reflect"
	"time"
)

// timeOf returns a time.Time or *time.Time as a pointer; nil for nil and for other types.
func timeOf(v any) *time.Time {
	switch t := v.(type) {
	case time.Time:
		return &t
	case *time.Time:
		return t
	}
	return nil
}

// integer returns any number, or the number to which a pointer points, as an int64; 0 for nil.
func integer(v any) int64 { return int64(float(v)) }

// float returns any number, or the number to which a pointer points; 0 for nil.
func float(v any) float64 {
	switch r := value(v); {
	case !r.IsValid():
		return 0
	case r.CanInt():
		return float64(r.Int())
	case r.CanUint():
		return float64(r.Uint())
	case r.CanFloat():
		return r.Float()
	}
	return 0
}

// text returns any value, or the value to which a pointer points, as text; "" for nil.
func text(v any) string {
	r := value(v)
	switch {
	case !r.IsValid():
		return ""
	case r.Kind() == reflect.String:
		return r.String()
	}
	if t, ok := r.Interface().(time.Time); ok {
		return t.UTC().Format(time.RFC3339)
	}
	return fmt.Sprint(r.Interface())
}

func value(v any) reflect.Value {
	r := reflect.ValueOf(v)
	for r.IsValid() && r.Kind() == reflect.Pointer {
		r = r.Elem()
	}
	return r
}
