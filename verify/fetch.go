package verify

import "context"

type withoutFetch struct{}

// WithoutFetch returns a ctx with which Keys answers from memory alone: for the
// request of a sender that has used up its budget.
func WithoutFetch(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutFetch{}, true)
}

// IsWithoutFetch reports whether ctx comes from WithoutFetch.
func IsWithoutFetch(ctx context.Context) bool {
	return ctx.Value(withoutFetch{}) != nil
}
