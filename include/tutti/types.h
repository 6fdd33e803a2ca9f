/* SPDX-License-Identifier: Apache-2.0
 * The plain types shared by every Tutti interface: result codes, element types, reduction operators,
 * collectives. C99 and C++. */
#ifndef TUTTI_TYPES_H
#define TUTTI_TYPES_H

/* What went wrong, by what the caller can do about it. The text (tutti_last_error) says the rest. */
typedef enum tutti_code {
  TUTTI_OK = 0,
  TUTTI_INVALID_ARGUMENT = 1, /* the call itself is wrong: fix the caller */
  TUTTI_UNSUPPORTED = 2,      /* a valid request that this build or machine cannot serve */
  TUTTI_UNAVAILABLE = 3,      /* a resource is missing or refused: file, socket, memory, permission */
  TUTTI_PEER_LOST = 4,        /* a peer died or its link broke; the text names its rank */
  TUTTI_TIMEOUT = 5,          /* a deadline passed; the text names the rank that was waited for */
  TUTTI_ABORTED = 6,          /* the communicator was aborted by the user */
  TUTTI_MISMATCH = 7,         /* ranks called different operations; the text shows both calls */
  TUTTI_INTERNAL = 8,         /* a broken invariant of Tutti: a bug */
  TUTTI_IN_PROGRESS = 9       /* not an error: the operation has not finished */
} tutti_code;

typedef enum tutti_dtype {
#define X(name, ENUMERATOR, bytes, value) TUTTI_##ENUMERATOR = value,
#include "tutti/dtypes.def"
#undef X
  TUTTI_DTYPE_COUNT = 13
} tutti_dtype;

/* Reduction operators; values up to AVG equal NCCL's ncclRedOp_t. AVG: floats are multiplied by 1/ranks
 * before the sum, integers divide the wrapped sum, truncating towards zero. MIN and MAX follow IEEE
 * 754-2019 minimum and maximum: NaN wins, -0 < +0. BAND, BOR, BXOR (bitwise and, or, exclusive or) are
 * for integers and bool. Bool: any byte but 0 is true, results are 0 or 1; SUM and MAX mean or, PROD and
 * MIN mean and; there is no AVG. What tutti_op_create_pre_mul_sum makes are values of this type, too.
 * docs/data-types.md has all of it. */
typedef enum tutti_op {
  TUTTI_SUM = 0,
  TUTTI_PROD = 1,
  TUTTI_MAX = 2,
  TUTTI_MIN = 3,
  TUTTI_AVG = 4,
  TUTTI_BAND = 5,
  TUTTI_BOR = 6,
  TUTTI_BXOR = 7,
  TUTTI_OP_COUNT = 8,
  TUTTI_PRE_MUL_SUM = 64,    /* any pre-multiplied sum, in events and records; handles are larger */
  TUTTI_OP_LAST = 0x7fffffff /* the largest handle */
} tutti_op;

typedef enum tutti_collective {
  TUTTI_ALL_REDUCE = 0,
  TUTTI_ALL_GATHER = 1,
  TUTTI_REDUCE_SCATTER = 2,
  TUTTI_BROADCAST = 3,
  TUTTI_BARRIER = 4,
  TUTTI_SEND = 5,
  TUTTI_RECV = 6,
  TUTTI_REDUCE = 7,
  TUTTI_GATHER = 8,
  TUTTI_SCATTER = 9,
  TUTTI_ALL_TO_ALL = 10,
  /* The forms with a count per rank ("v" for variable). */
  TUTTI_ALL_GATHER_V = 11,
  TUTTI_REDUCE_SCATTER_V = 12,
  TUTTI_GATHER_V = 13,
  TUTTI_SCATTER_V = 14,
  TUTTI_ALL_TO_ALL_V = 15,
  TUTTI_COLLECTIVE_COUNT = 16
} tutti_collective;

#endif /* TUTTI_TYPES_H */
