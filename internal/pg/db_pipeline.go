package pg

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// pipeline runs prepared statements in one transaction without a round trip for each:
// in PostgreSQL's extended protocol, all that is sent before a Sync is one
// transaction, which the Sync commits. After an error the transaction is rolled back,
// and only commit returns the error. If the error is the database's, the connection
// can be used again; else it is closed.
type pipeline struct {
	*pgconn.Pipeline
	conn   *pgconn.PgConn
	unread int // statements whose answers were not read
	err    error
}

func newPipeline(ctx context.Context, conn *pgconn.PgConn) *pipeline {
	return &pipeline{Pipeline: conn.StartPipeline(ctx), conn: conn}
}

// send sends a statement with the values of its parameters, nil if it has none.
// commit reads its result.
func (p *pipeline) send(s *statement, c *columns) {
	var params [][]byte
	var formats []int16
	if c != nil {
		params, formats = c.values(s)
	}
	p.SendQueryPrepared(s.name, params, formats, binaryResults)
	p.unread++
}

// query sends a statement and waits for its rows: one round trip.
func (p *pipeline) query(s *statement, c *columns) [][][]byte {
	if p.err != nil {
		return nil
	}
	p.send(s, c)
	p.SendFlushRequest()
	if p.err = p.Flush(); p.err != nil {
		return nil
	}
	return p.readAll()
}

// readAll reads the answers of all statements that were sent, and returns the last.
func (p *pipeline) readAll() (rows [][][]byte) {
	for ; p.unread > 0 && p.err == nil; p.unread-- {
		answer, err := p.GetResults()
		if err != nil {
			p.err = err
			return nil
		}
		reader, ok := answer.(*pgconn.ResultReader)
		if !ok {
			p.err = errNoAnswer
			_ = p.conn.Conn().Close() // which rolls back
			return nil
		}
		result := reader.Read()
		rows, p.err = result.Rows, result.Err
	}
	return rows
}

// commit commits what was sent, in one round trip, or returns the first error.
func (p *pipeline) commit() error {
	if p.err == nil {
		p.err = p.Sync()
		p.readAll()
	} else if _, ok := asPgError(p.err); ok {
		_ = p.Sync() // rolls back: PostgreSQL skips all that follows an error up to the Sync
	}
	if err := p.Close(); p.err == nil { // it reads the end of the transaction
		p.err = err
	}
	return p.err
}
