#pragma once
// What a kernel includes. On a machine with CANN the toolkit's header of this name is found
// instead.

#include "cube.h"
#include "data_copy.h"
#include "device_types.h"
#include "params.h"
#include "synchronization.h"
#include "tensor.h"
#include "tpipe.h"
#include "vector.h"
