package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/eventhook/eventhook"
	"github.com/eventhook/eventhook/internal/effects"
)

// PromiseStore creates, reads and settles promises; package internal/pg documents the
// guarantees. The channel of PromiseWake is closed when the promise may have been
// settled.
type PromiseStore interface {
	CreatePromise(ctx context.Context, p eventhook.Promise) (_ eventhook.Promise, created bool, err error)
	Promise(ctx context.Context, tenant eventhook.TenantID, id eventhook.PromiseID) (eventhook.Promise, error)
	PromiseByKey(ctx context.Context, tenant eventhook.TenantID, key string) (eventhook.Promise, error)
	Promises(ctx context.Context, tenant eventhook.TenantID, f eventhook.PromiseFilter) (eventhook.PromiseScan, error)
	SettlePromise(ctx context.Context, tenant eventhook.TenantID, id eventhook.PromiseID, o effects.PromiseOutcome) (eventhook.Promise, error)
	PromiseWake(tenant eventhook.TenantID, id eventhook.PromiseID) <-chan struct{}
}

type promiseView struct {
	ID                  string          `json:"id" format:"uuid"`
	IdempotencyKey      string          `json:"idempotency_key" doc:"Unique within the tenant."`
	Status              string          `json:"status" enum:"pending,resolved,rejected,expired" doc:"pending: not settled. resolved: settled with a value. rejected: settled with an error. expired: not settled in time."`
	Value               json.RawMessage `json:"value" doc:"Value of a resolved promise, else null."`
	Error               *string         `json:"error" doc:"Error of a rejected promise, else null."`
	WorkflowExecutionID *string         `json:"workflow_execution_id" doc:"Workflow execution for which the promise was created; null if none was given."`
	ExpiresAt           *time.Time      `json:"expires_at" doc:"Null if the promise does not expire."`
	CreatedAt           time.Time       `json:"created_at"`
	SettledAt           *time.Time      `json:"settled_at" doc:"Null while the promise is pending."`
}

func viewPromise(p eventhook.Promise) promiseView {
	v := promiseView{
		ID: p.ID.String(), IdempotencyKey: p.IdempotencyKey, Status: string(p.Status), Value: p.Value, Error: optional(p.Error),
		WorkflowExecutionID: optionalID(p.WorkflowExecutionID), ExpiresAt: optionalUTC(p.ExpiresAt), CreatedAt: utc(p.CreatedAt), SettledAt: optionalUTC(p.SettledAt),
	}
	if v.Value == nil {
		v.Value = json.RawMessage("null")
	}
	return v
}

func viewPromises(list []eventhook.Promise) (views []promiseView) {
	for _, p := range list {
		views = append(views, viewPromise(p))
	}
	return views
}

type promiseAnswer struct{ Body promiseView }

type createPromiseRequest struct {
	TenantPath
	Body struct {
		IdempotencyKey      string `json:"idempotency_key" minLength:"1" maxLength:"255" doc:"Unique within the tenant."`
		WorkflowExecutionID string `json:"workflow_execution_id,omitempty" nullable:"true" doc:"Workflow execution for which the promise is created."`
		TimeoutSeconds      int    `json:"timeout_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"Seconds until the promise expires; 0 (default): it does not expire."`
	}
}

type createdPromise struct {
	Status int
	Body   promiseView
}

// PromisePath is the part of a path that identifies a promise.
type PromisePath struct {
	TenantPath
	ID string `path:"id" format:"uuid" doc:"Promise id."`
}

func (s *server) registerPromises(api huma.API) {
	op := func(id, method, path, summary string) operation {
		return operation{id: id, method: method, path: base + "/promises" + path, summary: summary, scope: eventhook.ScopeWork, tag: "promises"}
	}
	create := op("create-promise", http.MethodPost, "", "Create a promise")
	create.status, create.alsoStatus = http.StatusCreated, http.StatusOK
	create.about = "201 if the promise is new; 200 with the existing promise if the tenant already has a promise with this idempotency key."
	register(s, api, create, s.createPromise)
	list := op("list-promises", http.MethodGet, "", "List promises")
	list.about = "Newest first. With idempotency_key, the list contains the promise with this key, if it exists. " + aboutScans
	register(s, api, list, s.listPromises)
	get := op("get-promise", http.MethodGet, "/{id}", "Get a promise")
	get.class, get.about = ownLimits, "With wait_seconds, the response is sent when the promise is settled, or when this time is over."
	register(s, api, get, s.getPromise)
	resolve := op("resolve-promise", http.MethodPost, "/{id}/resolve", "Resolve a promise with a value")
	resolve.maxBody, resolve.skipsShape, resolve.isFlat = resultBody, true, true
	register(s, api, resolve, s.resolvePromise)
	reject := op("reject-promise", http.MethodPost, "/{id}/reject", "Reject a promise with an error")
	reject.maxBody = errorBody
	register(s, api, reject, s.rejectPromise)
}

func (s *server) createPromise(ctx context.Context, by caller, in *createPromiseRequest) (*createdPromise, error) {
	if eventhook.NormalizeKey(in.Body.IdempotencyKey) != in.Body.IdempotencyKey {
		return nil, invalid("body.idempotency_key", "must be at most 255 bytes of text without NUL")
	}
	p := eventhook.Promise{TenantID: by.tenant, IdempotencyKey: in.Body.IdempotencyKey}
	if in.Body.WorkflowExecutionID != "" {
		var bad eventhook.Faults
		p.WorkflowExecutionID = idAt[eventhook.Execution](&bad, "body.workflow_execution_id", in.Body.WorkflowExecutionID)
		if err := malformed(bad); err != nil {
			return nil, err
		}
	}
	if in.Body.TimeoutSeconds > 0 {
		p.ExpiresAt = new(s.Now().Add(time.Duration(in.Body.TimeoutSeconds) * time.Second))
	}
	p, created, err := s.Promises.CreatePromise(ctx, p)
	if err != nil {
		return nil, err
	}
	out := &createdPromise{Status: http.StatusOK, Body: viewPromise(p)}
	if created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type promisesQuery struct {
	TenantPath
	PageQuery
	IdempotencyKey string `query:"idempotency_key" doc:"Return only the promise with this idempotency key."`
	Status         string `query:"status" enum:"pending,resolved,rejected,expired" doc:"Return only promises with this status."`
}

func (s *server) listPromises(ctx context.Context, by caller, in *promisesQuery) (*page[promiseView], error) {
	id := func(p eventhook.Promise) eventhook.PromiseID { return p.ID }
	pages := s.pager("promises", by.tenant)
	if in.IdempotencyKey != "" {
		p, err := s.Promises.PromiseByKey(ctx, by.tenant, eventhook.NormalizeKey(in.IdempotencyKey))
		if eventhook.KindOf(err) == eventhook.KindNotFound || err == nil && in.Status != "" && in.Status != string(p.Status) {
			return newPage(pages, nil, in.Limit, viewPromise, id), nil
		}
		return newPage(pages, []eventhook.Promise{p}, in.Limit, viewPromise, id), err
	}
	before, err := cursorOf[eventhook.Promise](pages, in.Cursor)
	if err != nil {
		return nil, err
	}
	found, err := s.Promises.Promises(ctx, by.tenant,
		eventhook.PromiseFilter{Status: eventhook.PromiseStatus(in.Status), Before: before, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	for _, p := range found.Promises {
		by.reservation.addUnchecked(int64(len(p.Value)) * copiedWeight)
	}
	return scannedPage(pages, found.Promises, found.Next, fittingLimit(found.Promises, in.Limit), viewPromise, id), nil
}

type getPromiseRequest struct {
	PromisePath
	WaitSeconds int `query:"wait_seconds" minimum:"0" maximum:"60" doc:"Seconds to wait for the promise to settle; 0 (default): return at once."`
}

func (s *server) getPromise(ctx context.Context, by caller, in *getPromiseRequest) (*promiseAnswer, error) {
	id, err := eventhook.ParseID[eventhook.Promise](in.ID)
	if err != nil {
		return nil, err
	}
	p, err := s.waitForPromise(ctx, by, id, time.Duration(in.WaitSeconds)*time.Second)
	return &promiseAnswer{viewPromise(p)}, err
}

// waitForPromise returns a promise. While it is pending, waitForPromise waits at most
// maxWait for its outcome. If several callers wait for the same promise, one of them
// reads it for all.
func (s *server) waitForPromise(ctx context.Context, by caller, id eventhook.PromiseID, maxWait time.Duration) (p eventhook.Promise, err error) {
	read := func(o *waitState) (bool, error) {
		if o.settled != nil {
			p = *o.settled
			return true, nil
		}
		o.wake, o.checkAt = s.Promises.PromiseWake(by.tenant, id), s.Now().Add(fallbackInterval)
		release, err := by.reservation.acquireSlot(ctx, works)
		if err != nil {
			return true, err
		}
		defer release()
		if p, err = s.Promises.Promise(ctx, by.tenant, id); err != nil || p.Status == eventhook.PromisePending {
			return err != nil, err
		}
		o.checkAt, o.settled = time.Time{}, &p
		return true, nil
	}
	var seen waitState
	if done, err := read(&seen); done || maxWait == 0 {
		return p, err
	}
	by.reservation.releaseForWait()
	err = s.waitQueues.wait(ctx, waitKey{by.tenant, "promise " + id.String()}, maxWait, seen, read)
	return p, err
}

type resolveRequest struct {
	PromisePath
	Body document[resolveRequestBody]
}

type resolveRequestBody struct {
	Value json.RawMessage `json:"value,omitempty" doc:"Any JSON value; default null."`
}

func (s *server) resolvePromise(ctx context.Context, by caller, in *resolveRequest) (*promiseAnswer, error) {
	body, err := in.Body.readWithRaw(s, "value")
	if err != nil {
		return nil, err
	}
	value := body.Value
	if value == nil {
		value = json.RawMessage("null")
	}
	return s.settlePromise(ctx, by, in.ID, effects.PromiseOutcome{Status: eventhook.PromiseResolved, Value: value})
}

type rejectRequest struct {
	PromisePath
	Body struct {
		Error string `json:"error" maxLength:"10000" doc:"Why the promise is rejected. Workers receive it with the promise."`
	}
}

func (s *server) rejectPromise(ctx context.Context, by caller, in *rejectRequest) (*promiseAnswer, error) {
	return s.settlePromise(ctx, by, in.ID, effects.PromiseOutcome{Status: eventhook.PromiseRejected, Error: in.Body.Error})
}

func (s *server) settlePromise(ctx context.Context, by caller, id string, o effects.PromiseOutcome) (*promiseAnswer, error) {
	pid, err := eventhook.ParseID[eventhook.Promise](id)
	if err != nil {
		return nil, err
	}
	p, err := s.Promises.SettlePromise(ctx, by.tenant, pid, o)
	if err != nil {
		return nil, err
	}
	return &promiseAnswer{viewPromise(p)}, nil
}
