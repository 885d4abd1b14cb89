// The reader's loop stands inside a while and begins again with the first count on each turn, while the writer
// counts on.
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#barriers = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32) -> (), sym_name = "kernel", sym_visibility = "public"}> ({
  ^bb0(%a_desc: !tt.tensordesc<tensor<64x64xf16, #shared>>, %n: i32, %m: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %two = "arith.constant"() <{value = 2 : i32}> : () -> i32
    %ring = "aref.create"() <{name = "ring"}> : () -> !aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>
    %first = "aref.first"(%ring) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>) -> !aref.index<2>
    "warp.group"() <{partition = "producer", role = "producer", num_warps = 1 : i32}> ({
      %gone:2 = "scf.while"(%zero, %first) ({
      ^bb0(%t0: i32, %from0: !aref.index<2>):
        %t_more = "arith.cmpi"(%t0, %m) <{predicate = 2 : i64}> : (i32, i32) -> i1
        "scf.condition"(%t_more, %t0, %from0) : (i1, i32, !aref.index<2>) -> ()
      }, {
      ^bb0(%t: i32, %from: !aref.index<2>):
        %written = "scf.for"(%zero, %n, %one, %from) ({
        ^bb0(%k: i32, %count: !aref.index<2>):
          "aref.put"(%ring, %count) ({
            %tile = "tt.descriptor_load"(%a_desc, %zero, %zero) <{cache = 1 : i32, evict = 1 : i32}> : (!tt.tensordesc<tensor<64x64xf16, #shared>>, i32, i32) -> tensor<64x64xf16, #blocked>
            "aref.filled"(%tile) : (tensor<64x64xf16, #blocked>) -> ()
          }) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>) -> ()
          %after = "aref.advance"(%count) : (!aref.index<2>) -> !aref.index<2>
          "scf.yield"(%after) : (!aref.index<2>) -> ()
        }) : (i32, i32, i32, !aref.index<2>) -> !aref.index<2>
        %t_next = "arith.addi"(%t, %one) : (i32, i32) -> i32
        "scf.yield"(%t_next, %written) : (i32, !aref.index<2>) -> ()
      }) : (i32, !aref.index<2>) -> (i32, !aref.index<2>)
      "warp.end"() : () -> ()
    }) : () -> ()
    "warp.group"() <{partition = "consumer", role = "consumer", num_warps = 4 : i32}> ({
      %zeros = "arith.constant"() <{value = dense<0.000000e+00> : tensor<64x64xf32, #mma>}> : () -> tensor<64x64xf32, #mma>
      %gone:2 = "scf.while"(%zero, %first) ({
      ^bb0(%t0: i32, %from0: !aref.index<2>):
        %t_more = "arith.cmpi"(%t0, %m) <{predicate = 2 : i64}> : (i32, i32) -> i1
        "scf.condition"(%t_more, %t0, %from0) : (i1, i32, !aref.index<2>) -> ()
      }, {
      ^bb0(%t: i32, %from: !aref.index<2>):
        %sum:2 = "scf.for"(%zero, %n, %one, %zeros, %first) ({  // wrong
        %sum:2 = "scf.for"(%zero, %n, %one, %zeros, %from) ({  // mended
        ^bb0(%k: i32, %acc: tensor<64x64xf32, #mma>, %count: !aref.index<2>):
          %view = "aref.get"(%ring, %count) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
          %next = "ttng.warp_group_dot"(%view, %view, %acc) <{inputPrecision = 0 : i32, isAsync = true, maxNumImpreciseAcc = 0 : i32}> : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
          %done = "ttng.warp_group_dot_wait"(%next) <{pendings = 0 : i32}> : (tensor<64x64xf32, #mma>) -> tensor<64x64xf32, #mma>
          "aref.consumed"(%ring, %count) : (!aref.ring<2 x (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>)>, !aref.index<2>) -> ()
          %after = "aref.advance"(%count) : (!aref.index<2>) -> !aref.index<2>
          "scf.yield"(%done, %after) : (tensor<64x64xf32, #mma>, !aref.index<2>) -> ()
        }) : (i32, i32, i32, tensor<64x64xf32, #mma>, !aref.index<2>) -> (tensor<64x64xf32, #mma>, !aref.index<2>)
        %t_next = "arith.addi"(%t, %one) : (i32, i32) -> i32
        "scf.yield"(%t_next, %sum#1) : (i32, !aref.index<2>) -> ()
      }) : (i32, !aref.index<2>) -> (i32, !aref.index<2>)
      "warp.end"() : () -> ()
    }) : () -> ()
    "tt.return"() : () -> ()
  }) {noinline = false} : () -> ()
}) {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} : () -> ()
