/* SPDX-License-Identifier: Apache-2.0
 * Tutti's C interface: collectives over the ranks of a job. See README.md for a program in 20 lines, and
 * tutti/tutti.hpp for the C++ interface on top of this one.
 *
 * Conventions
 *   - Every function returns a tutti_code. tutti_last_error() gives the text of the calling thread's last error: what
 *     happened, which rank, and what to do about it.
 *   - Counts are elements, 64 bits wide; "bytes" are bytes. Buffers are host memory of any alignment.
 *   - Structures start with their size (struct_size = sizeof) so that old programs run with newer libraries. A zeroed
 *     structure with struct_size set means "all defaults"; NULL means the same.
 *   - One thread at a time uses a communicator; different communicators may be used by different threads at once. Two
 *     threads inside one communicator are detected and get TUTTI_INVALID_ARGUMENT.
 *   - Every wait has a deadline (configuration `init_timeout` 60 s, `timeout` 300 s). After an error a communicator
 *     refuses work with the first error's text; destroy it.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/types.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

/* Version of the library in use, as major * 10000 + minor * 100 + patch. Never fails. */
TUTTI_API int tutti_version(void);
/* "peer_lost" for TUTTI_PEER_LOST. Static storage. */
TUTTI_API const char* tutti_code_name(tutti_code code);
/* Text of the calling thread's last error, "" if none. Valid until its next failing call. */
TUTTI_API const char* tutti_last_error(void);
/* Bytes of one element; 0 if `type` is not in dtypes.def. "float32" for TUTTI_FLOAT32; NULL if unknown. */
TUTTI_API size_t tutti_dtype_bytes(tutti_dtype type);
TUTTI_API const char* tutti_dtype_name(tutti_dtype type);

/* ---- Communicators ------------------------------------------------------------------------------------------- */

typedef struct tutti_comm tutti_comm;
typedef struct tutti_work tutti_work;

/* Names one communicator to be: a job id and a secret. Make it on one rank, hand it to all others by any means. */
typedef struct tutti_unique_id {
  unsigned char bytes[128];
} tutti_unique_id;

typedef struct tutti_config {
  size_t struct_size;
  const char* name;     /* in every log line, error and record; NULL: "comm-N" */
  const char* settings; /* "timeout=30s;slice_bytes=256K": any knob of docs/knobs.md; NULL: none. Wins over the
                           environment */
} tutti_config;

/* A fresh id. Errors: unavailable (no random numbers). */
TUTTI_API tutti_code tutti_unique_id_create(tutti_unique_id* id);
/* The id that a launcher left in TUTTI_UNIQUE_ID. Errors: unavailable (not set), invalid_argument (malformed). */
TUTTI_API tutti_code tutti_unique_id_from_environment(tutti_unique_id* id);

/* Joins the communicator `id` as `rank` of `ranks`. Blocks until all ranks have come or `init_timeout` has passed; the
 * error then names the ranks that are missing. Ranks may be processes of this machine, threads, or a mix; several
 * ranks of one thread must be created inside one group (the handle is then valid after tutti_group_end).
 * Errors: invalid_argument, timeout, peer_lost, mismatch (agreed settings differ), unavailable. */
TUTTI_API tutti_code tutti_comm_create(const tutti_unique_id* id, int rank, int ranks, const tutti_config* config,
                                       tutti_comm** comm);
/* The same with rank, ranks and id from the launcher's environment (RANK, WORLD_SIZE, TUTTI_UNIQUE_ID). */
TUTTI_API tutti_code tutti_comm_create_from_environment(const tutti_config* config, tutti_comm** comm);
/* Collective over `parent`: ranks with equal `color` form a new communicator, ordered by (key, parent rank). A negative
 * colour gets *comm = NULL. The new communicator shares its parent's sockets, mappings and configuration. */
TUTTI_API tutti_code tutti_comm_split(tutti_comm* parent, int color, int key, const tutti_config* config,
                                      tutti_comm** comm);
/* Ends a communicator. Not collective: returns at once, running operations of this rank fail with `aborted`. NULL is
 * fine. */
TUTTI_API tutti_code tutti_comm_destroy(tutti_comm* comm);
/* Wakes every waiter of every rank with `aborted` and `reason` (NULL allowed). Local and immediate; callable from any
 * thread. */
TUTTI_API tutti_code tutti_comm_abort(tutti_comm* comm, const char* reason);

TUTTI_API int tutti_comm_rank(const tutti_comm* comm);
TUTTI_API int tutti_comm_ranks(const tutti_comm* comm);
TUTTI_API const char* tutti_comm_name(const tutti_comm* comm);
/* OK, or the error that ended this communicator, with its text in tutti_last_error(). Never blocks. */
TUTTI_API tutti_code tutti_comm_status(tutti_comm* comm);

/* ---- Collectives --------------------------------------------------------------------------------------------- */

/* Options of one operation; NULL: defaults. */
typedef struct tutti_call {
  size_t struct_size;
  uint64_t tag;          /* shown in records and errors; no other meaning */
  double timeout_s;      /* deadline from the start of the operation; 0: the communicator's `timeout` */
  const char* algorithm; /* a row of `tutti plan --list`; NULL: the selector's choice */
} tutti_call;

/* All collectives: call on every rank with equal arguments, in the same order. With work == NULL they block until the
 * result is there; otherwise they return at once and *work must be waited for (or tested until done) and freed; buffers
 * belong to Tutti until then. Inside a group they start at tutti_group_end. in == out is allowed where stated, other
 * overlap is invalid_argument. count 0 is valid.
 * Errors: invalid_argument, unsupported (type x op, algorithm), peer_lost, timeout, aborted, mismatch. */

/* out[i] = op over all ranks of in[i]; count elements each. In place: in == out. */
TUTTI_API tutti_code tutti_all_reduce(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_op op,
                                      tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* Each rank gives `count` elements; out holds ranks * count, block r from rank r. In place: in == out + rank * count.
 */
TUTTI_API tutti_code tutti_all_gather(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_comm* comm,
                                      const tutti_call* call, tutti_work** work);
/* in holds ranks * count elements; rank r receives the reduction of block r. In place: out == in + rank * count. */
TUTTI_API tutti_code tutti_reduce_scatter(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_op op,
                                          tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* out on every rank = in of `root`; `in` is read on root only. In place: in == out. */
TUTTI_API tutti_code tutti_broadcast(const void* in, void* out, uint64_t count, tutti_dtype type, int root,
                                     tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* out[i] on `root` = op over all ranks of in[i]; count elements each. `out` is used on root only (NULL elsewhere is
 * fine). In place on root: in == out. */
TUTTI_API tutti_code tutti_reduce(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_op op, int root,
                                  tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* Each rank gives `count` elements; out on `root` holds ranks * count, block r from rank r, and is used there only. In
 * place on root: in == out + root * count. */
TUTTI_API tutti_code tutti_gather(const void* in, void* out, uint64_t count, tutti_dtype type, int root,
                                  tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* in on `root` holds ranks * count elements and is read there only; rank r receives block r. In place on root:
 * out == in + root * count. */
TUTTI_API tutti_code tutti_scatter(const void* in, void* out, uint64_t count, tutti_dtype type, int root,
                                   tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* in and out hold ranks * count elements each: block s of in goes to rank s, block s of out comes from rank s. There is
 * no in-place form. */
TUTTI_API tutti_code tutti_all_to_all(const void* in, void* out, uint64_t count, tutti_dtype type, tutti_comm* comm,
                                      const tutti_call* call, tutti_work** work);
/* The forms with a count per rank. `counts` and `displacements` are arrays of one number per rank, in elements; they
 * may change once the call has returned. Block r has counts[r] elements and begins displacements[r] elements into the
 * buffer that holds all blocks; NULL displacements: packed in rank order. Blocks of an output must not overlap; what
 * lies between them is not touched. Zero counts are valid, and a buffer of nothing may be NULL. Every rank gives the
 * same `counts`; displacements are its own affair. */

/* Rank r gives counts[r] elements; out holds the blocks of all ranks. In place: in == out + displacements[rank]. */
TUTTI_API tutti_code tutti_all_gather_v(const void* in, void* out, const uint64_t* counts,
                                        const uint64_t* displacements, tutti_dtype type, tutti_comm* comm,
                                        const tutti_call* call, tutti_work** work);
/* in holds a block for each rank; rank r receives the reduction of block r, counts[r] elements. In place:
 * out == in + displacements[rank], and no other block reaches into that one. */
TUTTI_API tutti_code tutti_reduce_scatter_v(const void* in, void* out, const uint64_t* counts,
                                            const uint64_t* displacements, tutti_dtype type, tutti_op op,
                                            tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* tutti_gather and tutti_scatter likewise; out (in) and displacements are used on `root` only. In place on root:
 * in == out + displacements[root], out == in + displacements[root]. */
TUTTI_API tutti_code tutti_gather_v(const void* in, void* out, const uint64_t* counts, const uint64_t* displacements,
                                    tutti_dtype type, int root, tutti_comm* comm, const tutti_call* call,
                                    tutti_work** work);
TUTTI_API tutti_code tutti_scatter_v(const void* in, void* out, const uint64_t* counts, const uint64_t* displacements,
                                     tutti_dtype type, int root, tutti_comm* comm, const tutti_call* call,
                                     tutti_work** work);
/* send_counts[s] elements of in go to rank s, recv_counts[s] elements of out come from rank s: each rank knows its own
 * counts only. send_counts[s] of rank r and recv_counts[r] of rank s must be equal, else all ranks get a mismatch that
 * names both; those whose own blocks were right may get it from their next call. A block of no elements still costs a
 * message of no bytes, so that this is found at once. There is no in-place form. */
TUTTI_API tutti_code tutti_all_to_all_v(const void* in, const uint64_t* send_counts, const uint64_t* send_displacements,
                                        void* out, const uint64_t* recv_counts, const uint64_t* recv_displacements,
                                        tutti_dtype type, tutti_comm* comm, const tutti_call* call, tutti_work** work);

/* Makes *op the sum of pre-multiplied contributions: a reduction with it multiplies what this rank gives by *scalar
 * (one element of `type`, copied; integers wrap) and then sums. The scalar may be another on every rank. `op` holds for
 * this communicator's reductions of this type, any number of them, until destroyed; on each rank its own handle is
 * used, and handles need not be equal. Not collective. Any thread, at any time but while the communicator is being
 * destroyed. Errors: invalid_argument, unsupported (bool). Like NCCL's ncclRedOpCreatePreMulSum with a scalar in host
 * memory. */
TUTTI_API tutti_code tutti_op_create_pre_mul_sum(const void* scalar, tutti_dtype type, tutti_comm* comm, tutti_op* op);
/* Ends an operator; calls that have been made with it, also those in an open group, are not affected. A communicator's
 * end ends its operators. Threads as above. Errors: invalid_argument (another communicator's, destroyed, built in). */
TUTTI_API tutti_code tutti_op_destroy(tutti_op op, tutti_comm* comm);

/* Returns once every rank has called it. */
TUTTI_API tutti_code tutti_barrier(tutti_comm* comm, const tutti_call* call, tutti_work** work);

/* ---- Point to point ------------------------------------------------------------------------------------------ */

#define TUTTI_ANY_SOURCE (-1)

/* Messages of one (sender, receiver, tag) arrive in order. A send of up to 4 KiB may complete before its receive is
 * posted; larger ones wait for it. Sending to oneself is allowed. The receive's count must equal the send's. */
TUTTI_API tutti_code tutti_send(const void* in, uint64_t count, tutti_dtype type, int peer, uint32_t tag,
                                tutti_comm* comm, const tutti_call* call, tutti_work** work);
/* peer may be TUTTI_ANY_SOURCE; *source (may be NULL) is the sender's rank once the operation is complete. */
TUTTI_API tutti_code tutti_recv(void* out, uint64_t count, tutti_dtype type, int peer, uint32_t tag, tutti_comm* comm,
                                const tutti_call* call, int* source, tutti_work** work);

/* ---- Asynchronous operations --------------------------------------------------------------------------------- */

typedef struct tutti_times {
  size_t struct_size;
  uint64_t issued_ns;    /* CLOCK_MONOTONIC: the call */
  uint64_t started_ns;   /* first progress */
  uint64_t last_peer_ns; /* first bytes of the last peer seen; 0: no peer */
  uint64_t done_ns;      /* completion; 0: not yet */
  int last_peer;         /* rank that came last; -1: none */
  char algorithm[24];    /* row that ran */
} tutti_times;

/* Blocks until done or for timeout_s seconds (< 0: until the operation's own deadline). TUTTI_TIMEOUT by this argument
 * leaves the operation running. Makes progress itself. */
TUTTI_API tutti_code tutti_work_wait(tutti_work* work, double timeout_s);
/* TUTTI_OK: done; TUTTI_IN_PROGRESS; or the operation's error. Makes progress, never blocks. */
TUTTI_API tutti_code tutti_work_test(tutti_work* work);
TUTTI_API tutti_code tutti_work_times(const tutti_work* work, tutti_times* times);
/* Calls fn(code, argument) once, on Tutti's callback thread, after completion (also if that is already past). fn may
 * launch and wait for operations. */
TUTTI_API tutti_code tutti_work_on_complete(tutti_work* work, void (*fn)(tutti_code code, void* argument),
                                            void* argument);
/* Releases the handle; an unfinished operation goes on. NULL is fine. */
TUTTI_API void tutti_work_free(tutti_work* work);

/* Operations (and tutti_comm_create / _split) of this thread between begin and end start together at the outermost end;
 * sends and receives among them cannot deadlock, whatever their order. Blocking calls inside return at once and are
 * complete after end. Nests. Errors of a call inside are returned by that call and by end. */
TUTTI_API tutti_code tutti_group_begin(void);
TUTTI_API tutti_code tutti_group_end(void);

/* ---- Memory -------------------------------------------------------------------------------------------------- */

typedef struct tutti_registration tutti_registration;

/* Page-aligned, touched memory that every local rank of this process's jobs can map: the fastest kind of buffer. */
TUTTI_API tutti_code tutti_alloc(size_t bytes, void** pointer);
TUTTI_API tutti_code tutti_free(void* pointer);
/* Announces [pointer, pointer + bytes) to the communicator. Collective operations on registered buffers give the same
 * results, and may run without copies. Deregister before freeing the memory. */
TUTTI_API tutti_code tutti_register_buffer(tutti_comm* comm, void* pointer, size_t bytes,
                                           tutti_registration** registration);
TUTTI_API tutti_code tutti_deregister_buffer(tutti_registration* registration);

/* ---- Explanations and events --------------------------------------------------------------------------------- */

/* Writes which row a collective of `bytes` (the larger buffer of a rank) would run, and why, as text of at most
 * `capacity` bytes including the final 0. *needed (may be NULL) is the size of the whole text. */
TUTTI_API tutti_code tutti_explain(tutti_comm* comm, tutti_collective what, uint64_t bytes, char* text, size_t capacity,
                                   size_t* needed);

typedef enum tutti_event_kind { TUTTI_EVENT_BEGIN = 0, TUTTI_EVENT_END = 1 } tutti_event_kind;
typedef struct tutti_event {
  size_t struct_size;
  tutti_event_kind kind;
  tutti_code code; /* END: how it ended */
  tutti_collective what;
  tutti_dtype type;
  tutti_op op;
  int peer; /* root or peer; -1: none */
  uint64_t count;
  uint64_t sequence; /* number of the operation in its communicator */
  uint64_t tag;
  uint64_t time_ns; /* CLOCK_MONOTONIC */
  const char* communicator;
  const char* algorithm; /* row; "" for point to point */
} tutti_event;
/* Calls fn for every operation of `comm`, on the thread that makes the progress: it must be quick and must not call
 * Tutti. fn == NULL removes it. */
TUTTI_API tutti_code tutti_set_event_hook(tutti_comm* comm, void (*fn)(const tutti_event* event, void* argument),
                                          void* argument);

#ifdef __cplusplus
}
#endif

#endif /* TUTTI_TUTTI_H */
