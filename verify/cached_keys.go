package verify

import "context"

type withoutFetch struct{}

// WithCachedKeysOnly returns a ctx with which Keys answers from memory alone: for the
// request of a sender that has used up its budget.
func WithCachedKeysOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutFetch{}, true)
}

// CachedKeysOnly reports whether ctx comes from WithCachedKeysOnly.
func CachedKeysOnly(ctx context.Context) bool {
	return ctx.Value(withoutFetch{}) != nil
}
