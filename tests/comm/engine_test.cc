// SPDX-License-Identifier: Apache-2.0
#include "src/comm/engine.h"
